"""The lake explorer: a web page of this computer to look at a lake. It needs the extra `explore`."""
