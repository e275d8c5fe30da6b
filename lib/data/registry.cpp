#include "data/registry.hpp"

namespace trainctl::data {

#define STAGE(kind, name) void register_##kind##_##name(Catalogue& catalogue);
#include "data/data.def"
#undef STAGE

Catalogue builtin_catalogue() {
  Catalogue catalogue;
#define STAGE(kind, name) register_##kind##_##name(catalogue);
#include "data/data.def"
#undef STAGE
  return catalogue;
}

}  // namespace trainctl::data
