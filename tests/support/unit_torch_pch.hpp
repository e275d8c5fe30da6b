#pragma once
// Headers that almost every test of the engine uses. The sources still include what they use.
#include <ATen/ATen.h>

// Catch2's CHECK replaces the one of libtorch.
#include "base/json.hpp"
#include "support/catch.hpp"

#include <fmt/format.h>
