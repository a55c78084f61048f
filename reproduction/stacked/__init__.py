"""Many small models of one architecture trained at once on one device: `trainer.train_stacked`."""
