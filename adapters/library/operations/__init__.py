"""Operations with handles, and the events that processes share."""
