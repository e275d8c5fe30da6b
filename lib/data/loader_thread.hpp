#pragma once

#include "data/loader.hpp"

namespace trainctl::data {

/// First thing in every thread of the loader: signals are left to the others, and the name and the
/// share of the cores are set.
void prepare_thread(Priority priority);

}  // namespace trainctl::data
