"""Load on tracking servers over the MLflow REST protocol; knows no server's internals."""
