"""Training data: reading rows, rendering and masking them, packing them into batches."""
