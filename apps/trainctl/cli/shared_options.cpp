#include "cli/shared_options.hpp"

#include <CLI/CLI.hpp>

namespace trainctl::app {

void add_split_argument(CLI::App& verb, std::string& split) {
  verb.add_option("--split", split, "which split: train, val, test")
      ->check(CLI::IsMember({"train", "val", "test"}).description(""))
      ->type_name("SPLIT")
      ->capture_default_str();
}

data::Role role_of(const std::string& split) {
  return split == "train" ? data::Role::train : data::Role::evaluate;
}

}  // namespace trainctl::app
