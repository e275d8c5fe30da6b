#pragma once

#include <string>
#include <vector>

namespace trainctl::config {

/// Returns the text with stars over credentials: what follows a key such as `secret_key` or
/// `password`, unless it is a `${secret:NAME}`, and what without_credentials() covers. The length
/// stays the same.
std::string without_secrets(std::string text);

/// Returns line `index` of a file in the same way. It may belong to a key of a line above.
std::string line_without_secrets(const std::vector<std::string>& lines, std::size_t index);

}  // namespace trainctl::config
