#include "base/version.hpp"

namespace trainctl {

std::string_view program_version() { return TRAINCTL_VERSION; }

}  // namespace trainctl
