#pragma once

#include <string>

namespace trainctl::study {

/// Of the library that keeps the ledgers of sweeps, as it was loaded: "3.40.1".
std::string sqlite_version();

}  // namespace trainctl::study
