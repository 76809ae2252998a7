#include "trainyard/learn/tape.hpp"

template class trainyard::learn::Tape<float>;
