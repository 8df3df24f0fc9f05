"""What is done in a lake, beneath the handles: reads, change data feeds, history, restore, answers, retries."""
