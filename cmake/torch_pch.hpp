#pragma once
// What almost every engine source needs. No source relies on it: each includes what it uses.
#include <torch/torch.h>
