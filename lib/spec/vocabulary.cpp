#include "spec/load.hpp"
#include "spec/stage_headers.hpp"

namespace trainctl::spec {

const config::Vocabulary& builtin_vocabulary() {
  static const config::Vocabulary vocabulary = [] {
    config::Vocabulary all;
#define TRAINCTL_ADD(kind, name, Type) all.add<kind::Type>(#kind, #name);
    TRAINCTL_FOR_EACH_STAGE(TRAINCTL_ADD)
#undef TRAINCTL_ADD
    return all;
  }();
  return vocabulary;
}

}  // namespace trainctl::spec
