#pragma once

#include <string>

namespace trainctl::launch {

/// What this machine calls itself; "this machine" where it does not tell.
std::string host_name();

}  // namespace trainctl::launch
