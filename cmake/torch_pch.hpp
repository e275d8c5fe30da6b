#pragma once
// Headers that almost every engine source uses. The sources still include what they use.
#include <torch/torch.h>
