#pragma once
// Headers that almost every engine source uses. The sources still include what they use.
// <torch/torch.h> would cost each source more than it saves: GCC instantiates its templates again
// in every source that uses the precompiled header.
#include <ATen/ATen.h>
