"""Fine-tuning: what a training run needs (planning) and the run itself (data, training, launch).

Imports core and client alone, never server code. torch, transformers and their kin are imported
late, inside the modules that need them; without them an error prints the line that installs them.
"""
