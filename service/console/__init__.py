"""The console: the files of a page that shows the data folder."""
