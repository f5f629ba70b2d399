"""The console: a page of plain modules that shows a data folder, and the files it is made of."""
