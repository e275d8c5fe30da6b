#pragma once

#include <string_view>

namespace trainctl {

/// Of the program: "0.1.0".
std::string_view program_version();

}  // namespace trainctl
