"""The folder of the built web pages. Owns no code; everything beside this file is generated."""
