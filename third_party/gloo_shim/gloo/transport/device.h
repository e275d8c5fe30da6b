#pragma once
// Declares the names that c10d's header uses; the wheel contains the definitions.

namespace gloo::transport {
class Device;
class UnboundBuffer;
}  // namespace gloo::transport
