#pragma once

#include <string>
#include <vector>

namespace trainctl::app {

/// bad: it costs most of the speed, or may end a run; broken: trainctl cannot train.
enum class Health { ok, degraded, bad, broken };

/// One thing doctor looked at.
struct Finding {
  std::string name;  // "memory"
  Health health = Health::ok;
  std::string found;       // "5.1 GiB of 23.5 GiB are free"
  std::string cure;        // what to do; empty where all is well
  std::string costs = {};  // what it costs as it is; empty where that is plain
};

/// Looks at the program's parts and the machine, without loading libtorch; in half a second, most
/// of which OpenCV takes to load.
std::vector<Finding> examine();

}  // namespace trainctl::app
