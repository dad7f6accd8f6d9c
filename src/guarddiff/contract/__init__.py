"""Fixed or limited sizes as a contract: written down with the model, checked at run time."""
