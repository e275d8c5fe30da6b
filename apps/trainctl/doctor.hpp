#pragma once

#include <string>
#include <vector>

namespace trainctl::app {

enum class Health { ok, degraded, broken };

/// One thing doctor looked at.
struct Finding {
  std::string name;  // "memory"
  Health health = Health::ok;
  std::string found;  // "5.1 GiB of 23.5 GiB are free"
  std::string cure;   // what to do; empty where all is well
};

/// Looks at the program's parts and the machine, without loading libtorch; in half a second, most
/// of which OpenCV takes to load.
std::vector<Finding> examine();

}  // namespace trainctl::app
