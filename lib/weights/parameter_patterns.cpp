#include "weights/parameter_patterns.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace trainctl::weights {
namespace {

/// Every parameter, and every layer that holds some.
std::vector<std::string> all_names(const std::vector<std::string>& parameters) {
  std::set<std::string> all(parameters.begin(), parameters.end());
  for (const std::string& parameter : parameters) {
    for (std::size_t dot = parameter.find('.'); dot != std::string::npos;
         dot = parameter.find('.', dot + 1))
      all.insert(parameter.substr(0, dot));
  }
  return {all.begin(), all.end()};
}

}  // namespace

bool names(const std::string& pattern, const std::string& parameter) {
  return ::fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0 ||
         ::fnmatch((pattern + ".*").c_str(), parameter.c_str(), 0) == 0;
}

std::vector<std::size_t> frozen_by(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& parameters) {
  std::vector<bool> frozen(parameters.size(), false);
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!names(pattern, parameters[i])) continue;
      found = frozen[i] = true;
    }
    if (found) continue;
    const auto near = nearest(pattern, all_names(parameters));
    throw Error(ErrorKind::config,
                fmt::format("freeze: '{}' names no parameter of the model; {}", printable(pattern),
                            near ? fmt::format("did you mean '{}'?", printable(*near))
                                 : "there are: " + shortened(parameters)));
  }
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    if (frozen[i]) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace trainctl::weights
