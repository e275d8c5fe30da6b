#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"

namespace trainctl::config {

/// Replaces `${a.b}` (another value of the tree), `${env:NAME}` and `${env:NAME,default}`. A scalar
/// that is nothing but one reference becomes what it refers to, with its type; within a text the
/// value's text is put in. `$${` stands for a plain `${`. `${secret:NAME}` stays a reference, which
/// the reader refuses where no field takes one. What cannot be resolved is reported and left
/// broken. Values keep the place of the `${`.
Node interpolate(const Node& tree, Diagnostics& diagnostics);

}  // namespace trainctl::config
