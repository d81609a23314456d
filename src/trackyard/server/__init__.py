"""The composition root: HTTP, access, routes. The only package that may import every other one."""
