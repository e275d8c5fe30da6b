#pragma once

#include "config/schema/reader.hpp"
#include "config/tree/yaml.hpp"
#include "spec/load.hpp"

#include <string>

/// Returns the stage that an experiment with this type and options would have; a bad option fails
/// the test. `options` is a YAML map such as "{lr: 0.1}".
inline trainctl::config::Stage stage_from(const std::string& kind, const std::string& type,
                                          const std::string& options = "{}") {
  using namespace trainctl;
  config::Diagnostics diagnostics;
  config::Node node =
      config::parse_yaml(config::make_source("test", options), options, diagnostics);
  node.entries.push_back({"type", {}, config::Node::scalar(type)});
  config::Stage out;
  config::Reader(spec::builtin_vocabulary(), diagnostics).stage(node, config::Field{}, kind, out);
  diagnostics.throw_if_errors();
  return out;
}
