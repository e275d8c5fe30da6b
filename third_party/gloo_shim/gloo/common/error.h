#pragma once
// Stands in for a header of Gloo that the wheel does not carry; c10d includes it and uses nothing
// of it here.
