#include "stages/builtin.hpp"

namespace trainctl::stages {

stage::Catalog builtin_catalog() {
  stage::Catalog catalog;
#define FAMILY(kind, family) register_##kind##_##family(catalog);
#include "stages/families.def"
#undef FAMILY
  return catalog;
}

}  // namespace trainctl::stages
