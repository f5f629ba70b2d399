"""Active labelling: how many labels are saved by choosing which documents to label."""
