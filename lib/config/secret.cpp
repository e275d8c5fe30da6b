#include "config/secret.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace trainctl::config {

std::string Secret::value() const {
  const char* found = std::getenv(name.c_str());
  ENSURE(config, found != nullptr && *found != '\0',
         "the environment variable '{}' of ${{secret:{}}} is not set; set it before the start",
         name, name);
  const std::string_view text(found);
  ENSURE(config,
         std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isgraph(static_cast<unsigned char>(c)) != 0; }),
         "the environment variable '{}' of ${{secret:{}}} holds a space, a line end or another "
         "character that no credential has; set it anew",
         name, name);
  return found;
}

}  // namespace trainctl::config
