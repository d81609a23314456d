"""Planning and fine-tuning language models. Imports core, client and checkpoint alone; torch and
transformers are imported late, by the parts that train.
"""
