#include "trainyard/place/learned/placeto_definitions.hpp"

template class trainyard::learned::PlacetoNetwork<float>;
