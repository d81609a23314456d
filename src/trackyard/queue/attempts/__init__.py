"""What running attempts report, print, ask for and leave behind."""
