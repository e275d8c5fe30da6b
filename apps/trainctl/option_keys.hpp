#pragma once

#include <string>
#include <vector>

#include "config/schema.hpp"

namespace trainctl::app {

/// One key of the experiment file as an override names it.
struct OptionKey {
  std::string path;                  // "optimizer.lr"
  std::string stage;                 // "optimizer/adam" where the key belongs to one type only, else empty
  std::vector<std::string> choices;  // values it may have, where they are words
};

/// Every key in the order of the file; a stage's options once for each type that has them.
std::vector<OptionKey> option_keys();

/// What a field of this type may hold, where that is a choice of words: names, true and false, auto.
std::vector<std::string> choices_of(const config::FieldType& type);

}  // namespace trainctl::app
