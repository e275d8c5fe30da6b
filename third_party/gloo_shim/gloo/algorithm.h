#pragma once
// Replaces a header of Gloo that the wheel does not contain; c10d includes it and uses nothing of
// it here.
