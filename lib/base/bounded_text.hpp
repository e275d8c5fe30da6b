#pragma once

#include <string>
#include <string_view>

namespace trainctl {

/// Returns a message that no value can make endless. Of each line with more than 2,000 characters
/// the first 1,000 and the last 500 stay: "START... (1,048,576 characters) ...END".
std::string bounded(std::string_view message);

}  // namespace trainctl
