#include "stages/builtin.hpp"

namespace trainctl::stages {

stage::Catalogue builtin_catalogue() {
  stage::Catalogue catalogue;
#define STAGE(kind, name, ...) register_##kind##_##name(catalogue);
#include "stages/stages.def"
#undef STAGE
  return catalogue;
}

}  // namespace trainctl::stages
