"""The only reader of disk and network: names, files and folders become graphs."""
