"""One thread per test process: small tensors gain nothing from more, and idle ones may spin."""

import torch

torch.set_num_threads(1)
