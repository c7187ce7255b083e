"""Out-of-domain detection: precision, recall, F1, AUROC, AUPR, FPR95."""
