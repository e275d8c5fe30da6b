#pragma once

#include "config/diagnostics.hpp"
#include "config/node.hpp"

#include <string>

namespace trainctl::config {

/// Replaces `${a.b}` (another value of the tree), `${env:NAME}` and `${env:NAME,default}`. A scalar that is nothing but
/// one reference becomes what it refers to, with its type; within a text the value's text is put in. `$${` stands for a
/// plain `${`. `${secret:NAME}` stays a reference. What cannot be resolved is reported and left broken. Values keep the
/// place of the `${`.
Node interpolate(const Node& tree, Diagnostics& diagnostics);

/// The text with each `${secret:NAME}` replaced by the environment variable NAME: called where a secret is used, its
/// result never stored. Throws Error(config) where NAME is not set.
std::string reveal_secrets(const std::string& text);

}  // namespace trainctl::config
