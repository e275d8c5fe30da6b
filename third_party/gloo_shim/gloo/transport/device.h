#pragma once
// Declares what c10d's header names; the wheel holds the definitions.

namespace gloo::transport {
class Device;
class UnboundBuffer;
}  // namespace gloo::transport
