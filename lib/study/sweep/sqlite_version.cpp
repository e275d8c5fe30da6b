#include "study/sweep/sqlite_version.hpp"

#include <sqlite3.h>

namespace trainctl::study {

std::string sqlite_version() { return sqlite3_libversion(); }

}  // namespace trainctl::study
