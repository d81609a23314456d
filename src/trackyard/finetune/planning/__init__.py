"""What a fine-tuning run will need before it runs: memory by part, step time, price, and which
plan to take. Owns the closed forms, the traces on fake tensors, the table of GPUs and the search
over plans. Knows nothing of servers or command lines, and needs no GPU.
"""
