"""The commands of the command line, one file each, and the options that they share."""
