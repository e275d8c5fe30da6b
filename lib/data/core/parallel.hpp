#pragma once

#include "data/loader/loader.hpp"

namespace trainctl::data {

/// First thing in every thread of the loader: signals are left to the others, and the name (at most
/// 15 characters) and the share of the cores are set.
void prepare_thread(const char* name, Priority priority);

}  // namespace trainctl::data
