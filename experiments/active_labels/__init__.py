"""Active labelling: how many labels it saves to choose which documents to label."""
