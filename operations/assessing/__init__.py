"""What is judged: the Records of a batch, of a selection or of a deal; and the rules that ATK runs over them."""
